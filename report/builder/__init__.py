"""The parts of report/build: the data and its schema, facts, tables, the template language, the figures' files."""
