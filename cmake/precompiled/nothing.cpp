// A target with precompiled headers has to have a source file.
