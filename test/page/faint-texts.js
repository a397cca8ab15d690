// Runs in the browser: every visible text whose contrast with its ground is below 4.5 to 1.
(() => {
  const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = (color) => {
    const [r, g, b] = color.slice(0, 3).map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const groundOf = (element) => {
    const chain = [];
    for (let at = element; at !== null; at = at.parentElement) chain.unshift(at);
    let ground = [255, 255, 255];
    for (const one of chain) {
      const [r, g, b, a = 1] = channels(getComputedStyle(one).backgroundColor);
      ground = [r, g, b].map((value, at) => value * a + ground[at] * (1 - a));
    }
    return ground;
  };
  const hasText = (element) =>
    [...element.childNodes].some((node) => node.nodeType === 3 && node.nodeValue.trim());
  return [...document.querySelectorAll("main *")]
    .filter((element) => hasText(element) && element.checkVisibility())
    .flatMap((element) => {
      const [a, b] = [luminance(channels(getComputedStyle(element).color)), luminance(groundOf(element))];
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      return contrast < 4.5 ? [`${element.className} ${element.textContent} ${contrast.toFixed(2)}`] : [];
    });
})();
