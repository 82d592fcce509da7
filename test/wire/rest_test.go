package wire_test

import "testing"

func (w *wire) replacedUnderTraffic(t *testing.T) {}
func (w *wire) fragments(t *testing.T)            {}
func (w *wire) alwaysWorks(t *testing.T)          {}
func (w *wire) routerErrors(t *testing.T)         {}
func (w *wire) holeMulticastFrame(t *testing.T)   {}
func (w *wire) holeTracked(t *testing.T)          {}
func (w *wire) holeListenerReports(t *testing.T)  {}
func (w *wire) holeFragments(t *testing.T)        {}
func (w *wire) pathDistributed(t *testing.T)      {}
func (w *wire) pathCentralised(t *testing.T)      {}
func (w *wire) migration(t *testing.T)            {}
func (w *wire) status(t *testing.T)               {}
func (w *wire) flows(t *testing.T)                {}
