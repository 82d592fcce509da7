#!/bin/bash
# Whether calls can be served: /readyz, asked where calls are not logged.
set -euo pipefail
exec 3<>/dev/tcp/127.0.0.1/9476
printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3
read -r _ status _ <&3
[ "$status" = 200 ]
