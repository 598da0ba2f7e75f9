#!/bin/sh
# Called by cargo in place of the compiler for crates of ours: counts what runs in them, and in nothing else.
rustc=$1
shift
exec "$rustc" "$@" -Cinstrument-coverage
