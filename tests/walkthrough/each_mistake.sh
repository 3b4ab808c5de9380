#!/usr/bin/env bash
# each_mistake.sh <dflash-walkthrough>: every mistake by its name is seen and names a sentence; bad usage is refused.
set -u
program=$1
failed=0
say() {
    echo "$*" >&2
    failed=1
}

mistakes=$("$program" --list-mistakes)
[[ $(wc -l <<<"$mistakes") -ge 16 ]] || say "--list-mistakes names only: $mistakes"
for mistake in $mistakes; do
    output=$("$program" --mistake "$mistake") || say "$mistake: exit status $?"
    grep -q -- ' -> ' <<<"$output" || say "$mistake: no number is shown to change"
    sed -n '/^Sentences that are false now:/,$p' <<<"$output" | grep -q '^   Step [1-7], ' ||
        say "$mistake: no sentence is named"
done

"$program" --cast nobody 2>/dev/null && say "an unknown cast was taken"
"$program" --mistake nothing 2>/dev/null && say "an unknown mistake was taken"
"$program" | awk 'length($0) > 100 { wide = 1 } END { exit wide }' || say "a line is wider than 100 columns"
"$program" --cast seed | grep -q $'\e' && say "colour codes in a pipe"
"$program" --json /dev/full 2>/dev/null && say "a full disk went unnoticed"
exit "$failed"
