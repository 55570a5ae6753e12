// Figures as text.

const STEPS = ["", "k", "M", "G", "T"];

function scaled(value, base, unit) {
  let step = 0;
  while (Math.abs(value) >= base && step < STEPS.length - 1) {
    value /= base;
    step += 1;
  }
  const digits = step === 0 || Math.abs(value) >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${STEPS[step]}${unit}`;
}

export function bytes(value) {
  return scaled(value, 1000, "B");
}

// null: not known yet.
export function rate(hz) {
  if (hz === null) return "";
  return `${hz >= 100 ? Math.round(hz) : Number(hz.toPrecision(2))} Hz`;
}

export function seconds(value) {
  if (value >= 90) return `${Math.round(value / 60)} min`;
  if (value >= 1) return `${value.toFixed(1)} s`;
  if (value >= 1e-3) return `${(value * 1e3).toPrecision(3)} ms`;
  return `${(value * 1e6).toPrecision(3)} µs`;
}

export function number(value) {
  if (value === null) return "not finite";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  return String(Number(value.toPrecision(5)));
}
