"""Hooks of mkdocs.yml: a link that leaves docs/ (to a source file) is text on the pages, where there is no such file."""
import posixpath
import re

LINK = re.compile(r"\[([^\]\n]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown, page, config, files):
    def replaced(match):
        text, target = match.group(1), match.group(2)
        if "://" in target:
            return match.group(0)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), target))
        return f"{text} (`{path.lstrip('./')}`)" if path.startswith("..") else match.group(0)

    # Each config of the gallery has its report page beside it (make_reference.py).
    markdown = re.sub(r"<!-- check: file (\w+)\.json -->", r"[The page of this kernel](gallery/\1.html)", markdown) \
        if page.file.src_uri == "gallery.md" else markdown
    return LINK.sub(replaced, markdown)
