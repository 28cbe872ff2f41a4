package reload

import "time"

// Status is how a configuration came to be what it is. It is plain data, also
// as JSON.
type Status struct {
	Path string `json:"path,omitempty"` // of the file; "" where there is none
	// Generation counts the configurations that were taken, the first being 1.
	Generation int64     `json:"generation"`
	Since      time.Time `json:"since"` // that the present one holds
	// Fault is why the file that is there now was not taken, and the last good
	// one still holds; "" where it was.
	Fault   string     `json:"fault,omitempty"`
	FaultAt *time.Time `json:"fault_at,omitempty"`
	// Restart says that the file has changes that take a restart.
	Restart bool `json:"restart_needed"`
}
