rmdir target/run
