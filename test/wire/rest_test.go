package wire_test

import "testing"

func (w *wire) holeMulticastFrame(t *testing.T)  {}
func (w *wire) holeTracked(t *testing.T)         {}
func (w *wire) holeListenerReports(t *testing.T) {}
func (w *wire) holeFragments(t *testing.T)       {}
func (w *wire) pathDistributed(t *testing.T)     {}
func (w *wire) pathCentralised(t *testing.T)     {}
func (w *wire) migration(t *testing.T)           {}
func (w *wire) status(t *testing.T)              {}
func (w *wire) flows(t *testing.T)               {}
