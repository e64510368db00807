//! Programs that are called: with a time limit, in a process group of their own, their output as it comes.
