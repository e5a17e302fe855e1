"""The command line: commands parse, call one function and print."""
