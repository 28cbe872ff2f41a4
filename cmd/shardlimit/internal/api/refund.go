package api

import "net/http"

// refund gives back what a check charged, by its receipt. It may be asked again
// at will: a charge is given back once.
func (a *API) refund(w http.ResponseWriter, r *http.Request) {
	text, p := readBody(w, r)
	if p != nil {
		p.write(w)
		return
	}
	var name string
	if faults := object(text, []field{{name: "receipt", to: &name}}); len(faults) > 0 {
		invalid(faults...).write(w)
		return
	}
	if name == "" {
		invalid(FieldError{Field: "receipt", Value: "", Reason: "must not be empty"}).write(w)
		return
	}
	if p := a.giveBack(r, name); p != nil {
		p.write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *API) giveBack(r *http.Request, name string) *Problem {
	charge, known := a.receipts.find(name)
	switch {
	case known:
		if err := a.Limiter.Refund(r.Context(), charge); err != nil {
			return explain(err)
		}
		return nil
	case a.receipts.elsewhere(name):
		return problem(http.StatusMisdirectedRequest, "other-instance", "The receipt is another instance's.",
			"this instance is "+a.receipts.instance+": ask the one that made the charge, unless it was started anew")
	default:
		return problem(http.StatusNotFound, "no-receipt", "There is no such receipt.",
			"it was never given, or so many came after it that it is forgotten")
	}
}
