rmdir target/tmp
