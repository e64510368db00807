//! What is known of a machine (facts), what is said about it (data), and templates over both.
