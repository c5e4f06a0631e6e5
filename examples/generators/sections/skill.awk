# Given the document twice: the first reading gathers its headings, the second copies its text below the frontmatter.
NR == FNR {
    if ($0 ~ /^#+ /) {
        title = $0
        sub(/^#+ /, "", title)
        gsub(/["\\]/, "", title)
        if (length(titles) + length(title) < 400) titles = titles (titles ? ", " : "") title
    }
    next
}
FNR == 1 {
    printf "---\nname: %s\n", name
    printf "description: \"%s says how to handle %s. Use it when a task is about any of these.\"\n---\n\n", document, titles
}
FNR <= 450 { print }
