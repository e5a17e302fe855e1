"""The policy `sillytavern`: what SillyTavern's World Info does with books and a chat.

It reads like docs/rules/sillytavern.md. `turns` runs one turn or a whole chat, `world` compiles
books, `scan` is the scan itself. `entry` is the codec between an entry's fields in SillyTavern's
files and ours.
"""
