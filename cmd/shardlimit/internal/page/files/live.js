// Keeps the page up to date: asks for it again, and puts what is new of each part marked data-live in its place. What the
// server made is what shows; nothing is computed here.
"use strict";

const every = 2000; // ms between two askings
const patience = 5000; // ms that an answer may take
const stale = document.getElementById("stale");
const pause = document.getElementById("pause");
let paused = false;

function complain(text) {
	if (stale.textContent !== text) stale.textContent = text;
	stale.hidden = !text;
}

function replace(fresh) {
	for (const part of document.querySelectorAll("[data-live]")) {
		const next = fresh.getElementById(part.id);
		if (next && next.innerHTML !== part.innerHTML) part.replaceChildren(...next.childNodes);
	}
}

// Whoever marks a text wants to copy it.
const reading = () => !document.getSelection().isCollapsed;

async function refresh() {
	const answer = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(patience) });
	if (answer.status === 401) return complain("Not up to date: you are signed out. Load the page to sign in.");
	if (!answer.ok) throw new Error(answer.statusText);
	const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
	if (!paused && !reading()) replace(fresh);
	complain("");
}

async function live() {
	try {
		if (!paused && !document.hidden && !reading()) await refresh();
	} catch {
		const time = document.getElementById("as-of").textContent;
		complain(`Not up to date: the daemon has not answered since ${time}.`);
	}
	setTimeout(live, every);
}

pause.addEventListener("click", () => {
	paused = !paused;
	pause.setAttribute("aria-pressed", paused);
});
pause.hidden = false;
setTimeout(live, every);
