package live

import (
	"github.com/charmbracelet/bubbles/key"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
)

// keyMap is what the keys do. What makes no sense on a stage is disabled.
type keyMap struct{ kill, restart, move, flush, quit key.Binding }

func newKeyMap() keyMap {
	bind := func(help string, keys ...string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(keys[0], help))
	}
	m := keyMap{
		kill:    bind("kill a primary", "k"),
		restart: bind("restart it", "r"),
		move:    bind("move slots", "m"),
		flush:   bind("flush scripts", "f"),
		quit:    bind("quit", "q", "ctrl+c", "esc"),
	}
	m.enable(demo.Scene{})
	return m
}

func (m *keyMap) enable(s demo.Scene) {
	m.kill.SetEnabled(s.CanKill)
	m.restart.SetEnabled(s.CanKill)
	m.move.SetEnabled(s.CanMove)
	m.flush.SetEnabled(s.CanMove)
}

// ShortHelp returns the keys for the last line.
func (m keyMap) ShortHelp() []key.Binding {
	return []key.Binding{m.kill, m.restart, m.move, m.flush, m.quit}
}

// FullHelp returns the same.
func (m keyMap) FullHelp() [][]key.Binding { return [][]key.Binding{m.ShortHelp()} }
