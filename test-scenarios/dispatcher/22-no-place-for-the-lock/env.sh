rmdir target/run
touch target/run
