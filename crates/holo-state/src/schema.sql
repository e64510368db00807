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
