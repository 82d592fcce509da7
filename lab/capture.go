package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Frame is an Ethernet frame that passed an interface.
type Frame struct {
	Data []byte
	// Outgoing is set when the interface's owner sent it.
	Outgoing bool
}

// Capture collects frames until Stop.
type Capture struct {
	file *os.File // the packet(7) socket
	keep func(Frame) bool
	done chan struct{} // closed when the reader has ended
	stop sync.Once

	mu      sync.Mutex
	changed *sync.Cond
	frames  []Frame
	ended   bool
	err     error
}

// captureBuffer is the size of the socket's receive buffer, in bytes.
const captureBuffer = 8 << 20

// Capture begins to collect the frames at the guest's interface for which keep
// holds; nil keeps all. It ends with the guest at the latest.
func (g *Guest) Capture(keep func(Frame) bool) (*Capture, error) {
	c, err := g.ns.capture(guestPort, keep)
	if err != nil {
		return nil, fmt.Errorf("capture in %s: %w", g.Spec.Name, err)
	}
	return c, nil
}

// Send sends a frame from the guest's interface as it is (packet(7)).
func (g *Guest) Send(frame []byte) error {
	socket, err := g.ns.packetSocket(guestPort, 0)
	if err == nil {
		_, err = socket.Write(frame)
		err = errors.Join(err, socket.Close())
	}
	if err != nil {
		return fmt.Errorf("send a frame from %s: %w", g.Spec.Name, err)
	}
	return nil
}

// packetSocket opens a packet(7) socket on an interface for one protocol; 0
// receives nothing.
func (n *namespace) packetSocket(name string, protocol uint16) (*os.File, error) {
	var file *os.File
	err := n.do(func() error {
		device, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		// Protocol 0 until it is bound: nothing of other interfaces gets in.
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open a packet socket: %w", err)
		}
		file = os.NewFile(uintptr(fd), "packet:"+name)
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBuffer); err != nil {
			return errors.Join(fmt.Errorf("size the buffer of a packet socket: %w", err), file.Close())
		}
		network := protocol<<8 | protocol>>8
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: network, Ifindex: device.Index}); err != nil {
			return errors.Join(fmt.Errorf("bind a packet socket to %s: %w", name, err), file.Close())
		}
		return nil
	})
	return file, err
}

// capture collects frames at an interface of the namespace.
func (n *namespace) capture(name string, keep func(Frame) bool) (*Capture, error) {
	file, err := n.packetSocket(name, unix.ETH_P_ALL)
	if err != nil {
		return nil, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if keep == nil {
		keep = func(Frame) bool { return true }
	}
	c := &Capture{file: file, keep: keep, done: make(chan struct{})}
	c.changed = sync.NewCond(&c.mu)
	n.closeAtEnd(closeCapture{c})
	go c.read(raw)
	return c, nil
}

// closeCapture is a Capture that nobody stopped.
type closeCapture struct{ *Capture }

// Close ends the capture. Who wants its frames sees its faults, by Stop.
func (c closeCapture) Close() error {
	_, _ = c.Stop()
	return nil
}

// read reads until the socket's deadline, which Stop sets.
func (c *Capture) read(raw syscall.RawConn) {
	defer close(c.done)
	defer c.end()
	err := raw.Read(func(fd uintptr) bool {
		c.drain(int(fd))
		return false // wait for more
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = raw.Control(func(fd uintptr) {
			c.drain(int(fd))
			c.checkDrops(int(fd))
		})
	}
	if err != nil {
		c.fail(fmt.Errorf("read frames: %w", err))
	}
}

// end tells those who wait that no more frames come.
func (c *Capture) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.changed.Broadcast()
}

// drain takes what the socket holds.
func (c *Capture) drain(fd int) {
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil:
			c.fail(fmt.Errorf("read a frame: %w", err))
			return
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		frame := Frame{Data: append([]byte(nil), buffer[:n]...), Outgoing: ok && link.Pkttype == unix.PACKET_OUTGOING}
		if c.keep(frame) {
			c.mu.Lock()
			c.frames = append(c.frames, frame)
			c.changed.Broadcast()
			c.mu.Unlock()
		}
	}
}

// checkDrops makes it an error that frames were lost to a full buffer: what
// counts them would be wrong.
func (c *Capture) checkDrops(fd int) {
	stats, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		c.fail(fmt.Errorf("read the socket's statistics: %w", err))
	} else if stats.Drops > 0 {
		c.fail(fmt.Errorf("%d of %d frames were dropped: the capture is too slow", stats.Drops, stats.Packets))
	}
}

func (c *Capture) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = errors.Join(c.err, err)
	c.changed.Broadcast()
}

// Frames are those collected so far.
func (c *Capture) Frames() []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Frame(nil), c.frames...)
}

// Wait returns the first frame for which match holds, collected already or to
// come. The end of ctx or of the capture is an error.
func (c *Capture) Wait(ctx context.Context, match func(Frame) bool) (Frame, error) {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for seen := 0; ; {
		for ; seen < len(c.frames); seen++ {
			if match(c.frames[seen]) {
				return c.frames[seen], nil
			}
		}
		err := errors.Join(ctx.Err(), c.err)
		if err == nil && c.ended {
			err = errors.New("the capture has ended")
		}
		if err != nil {
			return Frame{}, fmt.Errorf("wait for a frame among %d others: %w", seen, err)
		}
		c.changed.Wait()
	}
}

// Stop ends the capture and returns all that passed before it was called.
func (c *Capture) Stop() ([]Frame, error) {
	c.stop.Do(func() {
		// Any time in the past ends the read.
		if err := c.file.SetReadDeadline(time.Unix(1, 0)); err != nil {
			c.fail(fmt.Errorf("stop a capture: %w", err))
		} else {
			<-c.done
		}
		if err := c.file.Close(); err != nil {
			c.fail(fmt.Errorf("stop a capture: %w", err))
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames, c.err
}
