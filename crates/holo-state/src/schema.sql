-- The tables of the state database. `PRAGMA user_version` numbers this schema; see `VERSION` in lib.rs.

-- Refreshes that are due, or that become due if the change that is being made succeeds.
CREATE TABLE refresh (
    source BLOB NOT NULL,       -- the entity that changes
    target BLOB NOT NULL,       -- the entity to refresh
    plugin TEXT NOT NULL,       -- the plugin of the target
    is_due INTEGER NOT NULL,    -- 0: expected, 1: due
    since INTEGER,              -- when it became due or expected, in seconds since the epoch
    sent TEXT NOT NULL,         -- the values sent along, as a JSON array of KEY=VALUE
    PRIMARY KEY (source, target)
) STRICT, WITHOUT ROWID;

-- The records of entities: the state before the first change, and what was made of it.
CREATE TABLE record (
    store TEXT NOT NULL,        -- the plugin, and the directory where it has more than one kind of record
    entity TEXT NOT NULL,       -- the ID of the entity, or another key of the plugin
    value TEXT NOT NULL,        -- JSON
    PRIMARY KEY (store, entity)
) STRICT, WITHOUT ROWID;

-- Contents of files, by their SHA-256.
CREATE TABLE blob (
    digest TEXT PRIMARY KEY,    -- hexadecimal
    content BLOB NOT NULL
) STRICT;

-- The stores whose records may refer to a content. A content that no store uses is removed.
CREATE TABLE blob_use (
    store TEXT NOT NULL,
    digest TEXT NOT NULL REFERENCES blob (digest),
    PRIMARY KEY (store, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_use_of_digest ON blob_use (digest);

-- Directories that were created on the way to managed paths. The last file in one removes it, whichever plugin has the file.
CREATE TABLE directory (
    path BLOB NOT NULL,
    plugin TEXT NOT NULL,       -- the plugin that has created it
    PRIMARY KEY (path, plugin)
) STRICT, WITHOUT ROWID;

-- The last value that each entity sent under each name.
CREATE TABLE sent_value (
    entity BLOB NOT NULL,
    name BLOB NOT NULL,
    plugin TEXT NOT NULL,
    value BLOB NOT NULL,
    is_sensitive INTEGER NOT NULL,
    PRIMARY KEY (entity, name)
) STRICT, WITHOUT ROWID;

-- Runs that applied something, in the order in which they began.
CREATE TABLE run (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    began TEXT NOT NULL,                -- JSON
    ended TEXT,                         -- JSON; NULL while the run is at work, and after a kill
    size INTEGER NOT NULL DEFAULT 0     -- the bytes of its entries
) STRICT;

-- What a run did to one entity. Entities that were as desired have no entry.
CREATE TABLE run_entry (
    sequence INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run (sequence) ON DELETE CASCADE,
    record TEXT NOT NULL                -- JSON
) STRICT;

CREATE INDEX run_entry_of_run ON run_entry (run);

-- The last run that had nothing to do.
CREATE TABLE idle_run (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    record TEXT NOT NULL                -- JSON
) STRICT;

-- What the last check or apply found: the entities that are not in their desired state.
CREATE TABLE standing (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    record TEXT NOT NULL                -- JSON
) STRICT;

-- The runs whose inputs are saved for a rollback.
CREATE TABLE generation (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    value TEXT NOT NULL                 -- JSON
) STRICT;

-- The inputs of generations. The contents of files are blobs.
CREATE TABLE input (
    path BLOB NOT NULL,                 -- relative to the root
    since INTEGER NOT NULL,             -- the first generation with this input
    until INTEGER,                      -- the first later one without it; NULL if it is in the last one
    value TEXT NOT NULL,                -- its kind and attributes, as JSON
    content TEXT,                       -- the digest of a file
    stamp BLOB,                         -- the stamp of a file when it was read
    PRIMARY KEY (path, since)
) STRICT, WITHOUT ROWID;

-- Changes of values that describe the states of entities, such as versions of packages.
CREATE TABLE reported_value (
    sequence INTEGER PRIMARY KEY,
    record TEXT NOT NULL                -- JSON
) STRICT;

-- What runs found out about a plugin, with the stamps of the files that it rests on. Written by the dispatcher; see src/discovery/remembered.rs.
CREATE TABLE remembered (
    plugin TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    manifest BLOB NOT NULL      -- the stamps
) STRICT;

-- Exists if all entities are in their desired state as long as no file of the manifests above changes.
CREATE TABLE settled (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    value BLOB NOT NULL
) STRICT;

-- Records that have changed since their plugin's row in `remembered` was written.
CREATE TABLE record_change (
    plugin TEXT NOT NULL,
    entity TEXT NOT NULL,       -- the key of the record
    PRIMARY KEY (plugin, entity)
) STRICT, WITHOUT ROWID;
