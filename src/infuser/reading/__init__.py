"""Files as people have them: lines, lists, tables with named columns, and sources of knowledge. Loads without torch."""
