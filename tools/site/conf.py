# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the site of the pages (tools/docs_site.py stages what is read)."""

import os

project = "twinrun"
version = release = os.environ["TWINRUN_SITE_VERSION"]
html_title = f"twinrun {release}"
html_show_copyright = False
root_doc = "README"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["**/.*"]

# The names that code hosts give to headings: the pages' links are the same in both places.
myst_heading_anchors = 6
myst_enable_extensions = ["deflist"]

# Blocks are what a terminal shows, unless they name their language.
highlight_language = "text"
smartquotes = False  # an option is --name, not a dash

html_theme = "furo"
html_theme_options = {"source_edit_link": "", "top_of_page_buttons": []}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = False  # a page that was opened from a folder may not read others
pygments_dark_style = "monokai"


def setup(app):
    """The theme writes the whole menu into each page, which takes four fifths of the time: the
    branches that lead to other pages stay closed instead."""

    def closed(app, page, template, context, doctree):
        toctree = context.get("toctree")
        if toctree:
            context["toctree"] = lambda **how: toctree(**{**how, "collapse": True})

    app.connect("html-page-context", closed, priority=100)
