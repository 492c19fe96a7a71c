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
  const day = 86400;
  // Steps between ticks, in seconds: those of the plots, and shorter ones.
  const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400,
    21600, 43200, day, 2 * day, 5 * day, 10 * day, 20 * day, 30 * day, 90 * day];
  const units = [['d', day], ['h', 3600], ['m', 60], ['s', 1]];
  // The time of a tick: one number, such as 90m, unless that is long.
  const lengthOf = (seconds, step) => {
    if (seconds === 0) return '0';
    if (step < 1) return seconds.toFixed(3).replace(/0+$/, '') + 's';
    const last = units.findIndex(([, length]) => step >= length);
    const [letter, length] = units[last];
    if (seconds / length < 300) return Math.round(seconds / length) + letter;
    let rest = seconds;
    return units.slice(0, last + 1).map(([name, size]) => {
      const count = Math.floor(rest / size);
      rest -= count * size;
      return count > 0 ? count + name : '';
    }).join('');
  };
  const dateOf = (seconds, step, isFirst) => {
    const date = new Date(seconds * 1000).toISOString();
    if (seconds % day === 0) return date.slice(5, 10);
    const time = date.slice(11, step < 1 ? 23 : step < 60 ? 19 : 16);
    return isFirst && to - from < 1 ? date.slice(5, 10) + ' ' + time : time;
  };
  const ticks = () => {
    const span = (to - from) * end;
    const isDated = start > 0;
    const seconds = span < 1 ? span : Math.ceil(span);
    const step = steps.find((one) => Math.floor(seconds / one) <= 6) ?? Math.ceil(seconds / (6 * day)) * day;
    // Ticks are at multiples of the step; several days are counted from the first midnight.
    const zero = isDated && step >= day ? Math.ceil(start / day) * day : 0;
    const origin = isDated ? start : 0;
    axis.replaceChildren();
    let at = zero + Math.ceil((origin + from * end - zero) / step - 1e-9) * step;
    for (let count = 0; at <= origin + to * end + step * 1e-9; count++, at += step) {
      const place = ((at - origin) / end - from) / (to - from);
      const tick = document.createElement('span');
      tick.style.left = place * 100 + '%';
      if (place < 0.03) tick.style.transform = 'none';
      if (place >= 0.97) tick.style.transform = 'translateX(-100%)';
      tick.textContent = isDated ? dateOf(at, step, count === 0) : lengthOf(at, step);
      axis.append(tick);
    }
  };

  const show = () => {
    bars.setAttribute('viewBox', [from * whole, 0, (to - from) * whole, height].join(' '));
    timeline.dataset.from = from;
    timeline.dataset.to = to;
    ticks();
    labels.replaceChildren();
    const pixels = bars.getBoundingClientRect().width / (to - from) / whole;
    for (const bar of bars.querySelectorAll('rect[data-n]')) {
      const left = Math.max(bar.x.baseVal.value, from * whole);
      const right = Math.min(bar.x.baseVal.value + bar.width.baseVal.value, to * whole);
      const room = (right - left) * pixels;
      // The line around a bar would cover a narrow one.
      bar.classList.toggle('thin', room < 3);
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
  details.textContent = 'Click a bar to see its history.';
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
