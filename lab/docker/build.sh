#!/bin/sh
# Puts ovn-vpc and lab-node into the folder $1: built here where there is a Go,
# else as hack/lab.sh has built them for this architecture.
set -eu
mkdir -p "$1"
if command -v go >/dev/null; then
	CGO_ENABLED=0 go build -o "$1/" ./cmd/ovn-vpc ./lab/docker/lab-node
else
	cp "bin/linux-$(dpkg --print-architecture)/ovn-vpc" "bin/linux-$(dpkg --print-architecture)/lab-node" "$1/"
fi
