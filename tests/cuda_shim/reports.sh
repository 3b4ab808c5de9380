#!/usr/bin/env bash
# reports.sh <exit status> <text> <program...>: the program must end with that status and write that text,
# or nothing at all where the text is empty.
set -u
status=$1 text=$2
shift 2
output=$("$@" 2>&1)
got=$?
if [[ $got != "$status" || $output != *"$text"* || (-z $text && -n $output) ]]; then
    printf '%s\nexit status %s, needs %s, and in the output: %s\n' "$output" "$got" "$status" "$text" >&2
    exit 1
fi
