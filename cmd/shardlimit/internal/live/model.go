package live

import (
	"slices"

	"github.com/charmbracelet/bubbles/help"
	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/report"
)

// model is what the screen shows.
type model struct {
	ask  func(demo.Action)
	stop func()

	width, height int
	keys          keyMap
	help          help.Model

	opening string
	scene   demo.Scene // zero until the stage stands
	now     demo.Tick
	history [outcomes][]float64 // decisions/s, the latest last
	events  []eventMsg
	asked   demo.Action // and nothing has happened since; "": none
	ending  bool
}

// newModel returns a model that asks for actions and ends the demo.
func newModel(ask func(demo.Action), stop func()) model {
	const width, height = 80, 24 // until the terminal says
	h := help.New()
	h.Styles.ShortKey, h.Styles.ShortDesc, h.Styles.ShortSeparator = bold, plain, dim
	return model{ask: ask, stop: stop, width: width, height: height, keys: newKeyMap(), help: h}
}

// Init does nothing.
func (m model) Init() tea.Cmd { return nil }

// Update takes in one message.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		return m.press(msg)
	case openingMsg:
		m.opening = string(msg)
	case sceneMsg:
		m.scene = demo.Scene(msg)
		m.keys.enable(m.scene)
		if m.scene.Note != "" {
			m.events = append(m.events, eventMsg{text: m.scene.Note})
		}
	case eventMsg:
		m.asked = ""
		m.events = keepLast(m.events, msg)
	case tickMsg:
		m = m.count(demo.Tick(msg))
	}
	return m, nil
}

// press does what keys stand for: several at once where they came together.
func (m model) press(k tea.KeyMsg) (tea.Model, tea.Cmd) {
	if k.Type != tea.KeyRunes {
		m, do := m.pressOne(k)
		return m, command(do)
	}
	var all []func()
	for _, r := range k.Runes {
		var do func()
		m, do = m.pressOne(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
		all = append(all, do)
	}
	return m, command(all...)
}

// pressOne returns what is to be done once the model is up to date.
func (m model) pressOne(k tea.KeyMsg) (model, func()) {
	if key.Matches(k, m.keys.quit) {
		m.ending = true
		return m, m.stop
	}
	for _, c := range []struct {
		key    key.Binding
		action demo.Action
	}{
		{m.keys.kill, demo.Kill},
		{m.keys.restart, demo.Restart},
		{m.keys.move, demo.Move},
		{m.keys.flush, demo.Flush},
	} {
		if key.Matches(k, c.key) {
			m.asked = c.action
			return m, func() { m.ask(c.action) }
		}
	}
	return m, func() {}
}

// command returns a command that does one thing after the other.
func command(all ...func()) tea.Cmd {
	return func() tea.Msg {
		for _, do := range all {
			do()
		}
		return nil
	}
}

// The outcomes of a decision, in the order of the screen.
const (
	allowed = iota
	denied
	fallback
	failed
	outcomes // how many there are
)

// count takes in a tick.
func (m model) count(t demo.Tick) model {
	const shortest = tick / 5 // what is left of the last second says little
	if t.Length < shortest {
		return m
	}
	m.now = t
	for i, n := range [outcomes]int64{t.Allowed, t.Denied, t.Fallback, t.Errors} {
		m.history[i] = keepLast(m.history[i], float64(report.PerSecond(n, t.Length)))
	}
	return m
}

// keepLast returns a copy of s with v appended: a model is a value.
func keepLast[T any](s []T, v T) []T {
	const most = 500 // wider and higher than screens are
	return append(slices.Clone(s[max(0, len(s)-most+1):]), v)
}
