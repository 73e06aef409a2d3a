"""What report/build is made of: the data and its schema, facts, tables, the template language, the figures' files."""
