#!/bin/bash
# Applies the example to an empty northbound database, and stays for `docker
# compose exec translator ovn-vpc ...`.
set -euo pipefail
. /usr/local/lib/ovn-lab/common.sh
if [ -z "$(ovn-vpc get vpcs -o name)" ]; then
	ovn-vpc apply -f examples/three-tier/ --wait sb
fi
touch /run/applied
sleep infinity &
supervise
