#!/bin/bash
# The REST interface. Through it the example is applied to an empty northbound
# database, and the commands of `docker compose exec translator ovn-vpc` go.
set -euo pipefail
. /usr/local/lib/ovn-lab/common.sh
# --insecure: the server is published on the loopback address alone, and who is on
# the underlay reaches the databases too. --metrics-listen is for ready.sh.
ovn-vpc serve --listen 0.0.0.0:8443 --insecure --metrics-listen 127.0.0.1:9476 &
until /usr/local/lib/ovn-lab/ready.sh 2>/dev/null; do
	kill -0 $! # which fails where the server has ended
	sleep 0.1
done
vpcs=$(ovn-vpc get vpcs -o name)
if [ -z "$vpcs" ]; then
	ovn-vpc apply -f examples/three-tier/ --wait sb
fi
touch /tmp/applied
supervise
