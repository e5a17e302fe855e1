"""The policy `sillytavern`: reproduces the World Info of SillyTavern.

The modules follow docs/rules/sillytavern.md. `turns` runs one turn or a whole chat, `world`
compiles books, and `scan` is the scan itself. `entry` converts an entry's fields between
SillyTavern's files and ours.
"""
