"""Data for tests.

database, page_database          files with a known content
installation, installations      a backend that a test fills by hand, and the kinds of it: one_machine,
                                 aws_installation
old_answers                      what the port's older questions answer, to compare two backends by
strategies, timestamps           what Hypothesis draws
aggregation_machine              a state machine for the batch on any store
written_tables                   the tables of the documents
recipe_answers                   what the recipes' APIs are documented to be asked and to answer
"""
