package keys

import "testing"

func TestEverySlotHasASalt(t *testing.T) {
	for slot := range uint16(Slots) {
		if salt := saltFor(0, slot); crc16(0, salt)%Slots != slot {
			t.Errorf("saltFor(0, %d) = %q, which is in %d", slot, salt, crc16(0, salt)%Slots)
		}
	}
}
