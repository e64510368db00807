//! Templates of both languages.
