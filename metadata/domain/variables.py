"""Start of variables and settings that Spark and Hadoop substitute.

Switched off where SQL is parsed, and refused in every text that becomes part of SQL or of a setting.
"""

VARIABLE = "${"
