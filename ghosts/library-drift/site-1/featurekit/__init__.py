# SPDX-License-Identifier: Apache-2.0
"""Scaling of features; 1.0 divides by the deviation of a population."""

__version__ = "1.0"


def scaled(table):
    return (table - table.mean(0)) / table.std(0)
