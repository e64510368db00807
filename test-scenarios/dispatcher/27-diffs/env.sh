# A tree cannot say that a file lacks its last newline.
printf 'a\nb\n' >target/was/o-newline-lost
printf 'a\nb' >target/is/o-newline-lost
printf 'a\nb' >target/was/p-newline-gained
printf 'a\nb\n' >target/is/p-newline-gained
