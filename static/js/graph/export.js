// The picture as a file: an SVG that looks the same without the page's style sheets.

const STYLES = [
  "fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight",
];

export function svgFile(svg) {
  const copy = svg.cloneNode(true);
  const copies = copy.querySelectorAll("rect, path, text");
  // As attributes: the page's policy allows no style attributes.
  svg.querySelectorAll("rect, path, text").forEach((element, place) => {
    const style = getComputedStyle(element);
    STYLES.forEach((name) => copies[place].setAttribute(name, style.getPropertyValue(name)));
  });
  copy.querySelectorAll("a").forEach((link) => {
    if (link.hasAttribute("href")) link.setAttribute("href", new URL(link.getAttribute("href"), document.baseURI).href);
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const text = new XMLSerializer().serializeToString(copy);
  return new Blob([text], { type: "image/svg+xml" });
}
