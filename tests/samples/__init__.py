"""Data for tests.

database, page_database          files with a known content
strategies, timestamps           what Hypothesis draws
aggregation_machine              a state machine for the batch on any store
written_tables                   the tables of the documents
"""
