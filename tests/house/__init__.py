"""The rules of the house as functions: each takes the root of a tree and gives the faults it finds there.

tree (files, syntax, a Fault) ─▶ imports (who may know whom), database_file (who may open files), texts (what
    stands in the files), events (what a log line is called), rooms (packages and their maps), mirror (where
    unit tests stand), documents (what must be written down), glossary and translations (the Japanese words and
    documents), properties, requirements (what must be tested)
test_house.py asks them of this repository; test_rules.py and test_rules_of_rooms.py show that each finds a fault.
"""
