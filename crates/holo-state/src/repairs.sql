-- What runs that nobody asked for did to an entity: what counts against its limit, and until when it is left alone.
CREATE TABLE IF NOT EXISTS repair (
    entity BLOB PRIMARY KEY,
    record TEXT NOT NULL                -- JSON
) STRICT, WITHOUT ROWID;
