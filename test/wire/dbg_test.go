package wire_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

func TestDbg(t *testing.T) {
	w := newWire(t)
	in := list{ingress: "allow", egress: "allow", rules: []string{
		"{number: 10, action: reject, protocol: tcp, ports: [90]}",
		"{number: 20, action: reject, protocol: udp, ports: [90]}",
	}}
	w.lists(t, open(), in, list{})
	for i := 0; i < 3; i++ {
		for _, f := range []family{ipv4, ipv6} {
			for name, mk := range map[string]func(from, to *guest, f family, port uint16) lab.Packet{"syn": w.syn, "udp": w.udp} {
				if os.Getenv("ONLY") != "" && os.Getenv("ONLY") != name {
					continue
				}
				for _, to := range []*guest{w.app1, w.app2} {
					p := mk(w.web1, to, f, 90)
					fmt.Println(name, f, to.Spec.Name, w.answered(t, true, w.web1, refusal(p), p.Frame()))
					if os.Getenv("AGAIN") != "" {
						fmt.Println("again", w.answered(t, true, w.web1, refusal(p), p.Frame()))
					}
					if os.Getenv("MARK") != "" {
						w.marker(t, w.web1, to)
						fmt.Println("marked")
					}
				}
			}
		}
	}
}
