'use strict';
// Zooms the timelines of the page. Without it they stand there whole.
for (const timeline of document.querySelectorAll('.timeline')) {
  const bars = timeline.querySelector('.bars');
  const labels = timeline.querySelector('.labels');
  const axis = timeline.querySelector('.axis');
  const details = timeline.querySelector('.history');
  const strip = timeline.querySelector('.strip');
  const end = Number(timeline.dataset.seconds);
  // The date at which the run starts, in seconds since 1970; NaN if it has none.
  const start = Number(timeline.dataset.start);
  const height = bars.viewBox.baseVal.height;
  const whole = 1e6;
  // The strip on the narrowest paper, in its own pixels: names that have no room there are not printed.
  const paper = 560;
  let from = 0;
  let to = 1;

  const two = (number) => String(Math.floor(number)).padStart(2, '0');
  const timeOf = (part) => {
    const seconds = part * end;
    const span = (to - from) * end;
    if (start > 0) {
      const date = new Date((start + seconds) * 1000).toISOString();
      return date.slice(5, 10) + ' ' + date.slice(11, span < 600 ? 19 : 16);
    }
    if (span < 10) return seconds.toFixed(2) + 's';
    if (end < 3600) return Math.floor(seconds / 60) + 'm' + two(seconds % 60) + 's';
    const hours = Math.floor((seconds % 86400) / 3600) + 'h' + two((seconds % 3600) / 60);
    const days = end < 2 * 86400 ? '' : Math.floor(seconds / 86400) + 'd';
    if (days === '' && end >= 86400) return Math.floor(seconds / 3600) + 'h' + two((seconds % 3600) / 60);
    return days + hours + (span < 600 ? 'm' + two(seconds % 60) : '');
  };

  const show = () => {
    bars.setAttribute('viewBox', [from * whole, 0, (to - from) * whole, height].join(' '));
    timeline.dataset.from = from;
    timeline.dataset.to = to;
    const ticks = axis.children;
    for (let tick = 0; tick < ticks.length; tick++) {
      ticks[tick].textContent = timeOf(from + (to - from) * tick / (ticks.length - 1));
    }
    labels.replaceChildren();
    const pixels = bars.getBoundingClientRect().width / (to - from) / whole;
    for (const bar of bars.querySelectorAll('rect[data-n]')) {
      const left = Math.max(bar.x.baseVal.value, from * whole);
      const right = Math.min(bar.x.baseVal.value + bar.width.baseVal.value, to * whole);
      const room = (right - left) * pixels;
      if (bar.height.baseVal.value < 12 || room < bar.dataset.n.length * 7.5 + 8) continue;
      const text = document.createElementNS('http://www.w3.org/2000/svg', 'text');
      // A part of the width, so that it stands in its bar however wide the strip is on paper.
      text.setAttribute('x', (left / whole - from) / (to - from) * 100 + '%');
      text.setAttribute('dx', 4);
      text.setAttribute('y', bar.y.baseVal.value + bar.height.baseVal.value / 2);
      const tight = (right - left) / (to - from) / whole * paper < bar.dataset.n.length * 7.5 + 8;
      text.setAttribute('class', 'on' + bar.getAttribute('class').slice(1, 2) + (tight ? ' tight' : ''));
      text.textContent = bar.dataset.n;
      labels.append(text);
    }
  };

  const set = (newFrom, newTo) => {
    const length = Math.min(1, Math.max(newTo - newFrom, 1e-6));
    from = Math.min(Math.max(0, newFrom), 1 - length);
    to = from + length;
    show();
  };
  const zoom = (factor, at) => set(at - (at - from) * factor, at + (to - at) * factor);
  const move = (part) => set(from + (to - from) * part, to + (to - from) * part);
  const middle = () => (from + to) / 2;
  const acts = {
    in: () => zoom(0.5, middle()),
    out: () => zoom(2, middle()),
    left: () => move(-0.5),
    right: () => move(0.5),
    whole: () => set(0, 1),
  };
  const keys = { '+': 'in', '=': 'in', '-': 'out', ArrowLeft: 'left', ArrowRight: 'right', 0: 'whole', Home: 'whole' };

  timeline.querySelector('.controls').hidden = false;
  for (const button of timeline.querySelectorAll('button')) {
    button.addEventListener('click', acts[button.dataset.act]);
  }
  strip.addEventListener('keydown', (event) => {
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
    acts[keys[event.key]]();
    event.preventDefault();
  });
  const place = (event) => {
    const box = bars.getBoundingClientRect();
    return from + (to - from) * (event.clientX - box.left) / box.width;
  };
  // The wheel alone scrolls the page.
  strip.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, place(event));
  }, { passive: false });
  let held = null;
  strip.addEventListener('pointerdown', (event) => { held = { at: event.clientX, from, to }; });
  strip.addEventListener('pointermove', (event) => {
    if (held === null || event.buttons !== 1) return;
    const by = (held.at - event.clientX) / bars.getBoundingClientRect().width * (held.to - held.from);
    set(held.from + by, held.to + by);
  });
  window.addEventListener('pointerup', () => { held = null; });
  strip.addEventListener('click', (event) => {
    if (event.target.tagName !== 'rect' || !event.target.dataset.n) return;
    for (const bar of bars.querySelectorAll('.chosen')) bar.classList.remove('chosen');
    event.target.classList.add('chosen');
    details.textContent = event.target.querySelector('title').textContent;
  });
  window.addEventListener('resize', show);
  // A folded strip has no width until it is unfolded.
  const fold = timeline.closest('details');
  if (fold !== null) fold.addEventListener('toggle', show);
  show();
}
// Folds the rows of a table that have the same value of a factor. Without it the table stands there whole.
for (const foldable of document.querySelectorAll('.foldable')) {
  const table = foldable.querySelector('table');
  const rows = [...table.tBodies[0].rows];
  const headers = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const meets = headers.indexOf('meets all');
  const label = document.createElement('label');
  const select = document.createElement('select');
  label.append('Fold by ', select);
  for (const name of ['nothing', ...headers.slice(0, Number(foldable.dataset.factors))]) {
    select.append(new Option(name, name));
  }

  const folded = (name, value, members) => {
    const body = document.createElement('tbody');
    const head = body.insertRow();
    const cell = head.appendChild(document.createElement('th'));
    const button = cell.appendChild(document.createElement('button'));
    const met = members.filter((row) => row.cells[meets].textContent === 'yes').length;
    const count = members.length === 1 ? '1 row' : members.length + ' rows';
    const open = (isOpen) => {
      button.setAttribute('aria-expanded', isOpen);
      button.textContent = (isOpen ? '▾ ' : '▸ ') + name + ' = ' + value + ': ' + count + ', ' + met + ' meet all';
      for (const row of members) row.hidden = !isOpen;
    };
    head.className = 'fold';
    cell.colSpan = headers.length;
    cell.scope = 'rowgroup';
    button.type = 'button';
    button.addEventListener('click', () => open(button.getAttribute('aria-expanded') !== 'true'));
    body.append(...members);
    open(members.some((row) => row.classList.contains('best')));
    return body;
  };
  select.addEventListener('change', () => {
    const column = select.selectedIndex - 1;
    const groups = new Map();
    for (const row of rows) {
      row.hidden = false;
      const value = column < 0 ? '' : row.cells[column].textContent;
      if (!groups.has(value)) groups.set(value, []);
      groups.get(value).push(row);
    }
    for (const body of [...table.tBodies]) body.remove();
    for (const [value, members] of groups) {
      const body = column < 0 ? document.createElement('tbody') : folded(headers[column], value, members);
      if (column < 0) body.append(...members);
      table.append(body);
    }
  });
  foldable.prepend(label);
}
