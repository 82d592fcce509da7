package lab

import "fmt"

// The UDP ports of the tunnels.
const (
	portVXLAN  = 4789 // RFC 7348, 8
	portGeneve = 6081 // RFC 8926, 3.3
)

// encapPort is the UDP port of a type of tunnel.
func encapPort(encap string) (uint16, error) {
	switch encap {
	case "vxlan":
		return portVXLAN, nil
	case "geneve":
		return portGeneve, nil
	}
	return 0, fmt.Errorf("encapsulation %q is neither vxlan nor geneve", encap)
}

// UnderlayCount counts the tunnelled packets at a hypervisor's interface to
// the underlay.
type UnderlayCount struct{ capture *Capture }

// CountUnderlay begins to count the tunnelled packets in whose inner frame
// match holds; nil counts all.
func (h *Hypervisor) CountUnderlay(match func(inner []byte) bool) (*UnderlayCount, error) {
	port, err := encapPort(h.lab.options.Encap)
	if err != nil {
		return nil, err
	}
	capture, err := h.ns.capture(h.port, func(f Frame) bool {
		inner, ok := decapsulate(f.Data, port)
		return ok && (match == nil || match(inner))
	})
	if err != nil {
		return nil, fmt.Errorf("count the underlay of %s: %w", h.Name, err)
	}
	return &UnderlayCount{capture}, nil
}

// Stop ends the count and returns how many packets the hypervisor received
// and sent.
func (u *UnderlayCount) Stop() (in, out int, err error) {
	frames, err := u.capture.Stop()
	for _, f := range frames {
		if f.Outgoing {
			out++
		} else {
			in++
		}
	}
	return in, out, err
}

// decapsulate returns the inner frame of a packet to the port of the tunnels.
func decapsulate(frame []byte, port uint16) ([]byte, bool) {
	outer, err := ParsePacket(frame)
	if err != nil || outer.Proto != ProtoUDP || outer.IsFragment() {
		return nil, false
	}
	const tunnelLen = 8
	if _, dst := outer.Ports(); dst != port || len(outer.Payload) < udpLen+tunnelLen {
		return nil, false
	}
	header := outer.Payload[udpLen:]
	length := tunnelLen
	if port == portGeneve {
		length += int(header[0]&0x3f) * 4 // options (RFC 8926, 3.4)
	}
	if len(header) < length {
		return nil, false
	}
	return header[length:], true
}
