#![cfg_attr(fuzzing, no_main)]

tubewell_fuzz::target!(http);
