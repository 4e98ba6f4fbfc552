"use strict";

// Plays one video with dash.js and writes down what happens. All times are performance.now(), in milliseconds.
const watch = (() => {
  const SAMPLE_EVERY_MS = 250;
  // A player that has given up leaves the picture standing: it has this long to prove otherwise.
  const GIVE_UP_MS = 3000;
  // dash.js seeks back at times when the last picture is shown, and `ended` never comes: it has this long to come.
  const ENDED_WITHIN_MS = 500;
  const ELEMENT_EVENTS = ["playing", "waiting", "seeking", "seeked", "pause", "ended", "error"];

  const video = document.getElementById("video");
  const record = { started: null, ended: null, outcome: null, events: [], samples: [], frames: [], errors: [] };
  const progress = { position: 0, at: 0 };
  let player = null;
  let timer = null;
  let duration = Infinity;
  let pictureLength = 0;
  let shownMs = null; // when the last picture of the media had been shown

  function bufferedAhead() {
    const position = video.currentTime;
    for (let i = 0; i < video.buffered.length; i++) {
      if (video.buffered.start(i) <= position + 0.1 && position < video.buffered.end(i)) {
        return video.buffered.end(i) - position;
      }
    }
    return 0;
  }

  function onFrame(now, frame) {
    if (frame.mediaTime >= duration) {
      finish("played");
      return;
    }
    record.frames.push([frame.presentationTime, frame.mediaTime, frame.width, frame.height]);
    if (frame.mediaTime + 1.5 * pictureLength > duration) {
      shownMs = Math.max(now, frame.presentationTime) + 1000 * pictureLength;
      setTimeout(finishShown, shownMs - performance.now() + ENDED_WITHIN_MS);
    } else if (record.outcome === null) video.requestVideoFrameCallback(onFrame);
  }

  function finishShown() {
    if (record.outcome !== null) return;
    finish("played");
    record.ended = shownMs;
    record.position = duration;
  }

  function sample() {
    if (shownMs !== null) return;
    const now = performance.now();
    record.samples.push([now, video.currentTime, bufferedAhead()]);
    if (video.currentTime !== progress.position) {
      progress.position = video.currentTime;
      progress.at = now;
    }
    if (video.currentTime >= duration) finish("played");
    else if (record.errors.length > 0 && now - Math.max(progress.at, record.errors[0][0]) > GIVE_UP_MS) {
      finish("broken");
    }
  }

  function finish(outcome) {
    if (record.outcome !== null) return;
    clearInterval(timer);
    record.outcome = outcome;
    record.ended = performance.now();
    record.position = video.currentTime;
    const quality = video.getVideoPlaybackQuality();
    record.decoded = quality.totalVideoFrames;
    record.dropped = quality.droppedVideoFrames;
    record.requests = performance.getEntriesByType("resource").map((entry) => ({
      url: entry.name,
      start: entry.startTime,
      request: entry.requestStart,
      response: entry.responseStart,
      end: entry.responseEnd,
      bytes: entry.encodedBodySize,
      transferred: entry.transferSize,
      status: entry.responseStatus,
      protocol: entry.nextHopProtocol,
    }));
    video.pause();
    player.destroy();
  }

  // Listeners come before the player's: what it does in answer to an event is written down after it.
  function begin(settings) {
    performance.setResourceTimingBufferSize(100000);
    duration = settings.duration;
    pictureLength = settings.picture;
    for (const name of ELEMENT_EVENTS) {
      video.addEventListener(name, () => {
        const now = performance.now();
        if (shownMs === null || now <= shownMs || name === "ended") record.events.push([now, name, video.currentTime]);
      });
    }
    video.addEventListener("ended", () => finish("played"));
    player = dashjs.MediaPlayer().create();
    player.updateSettings(settings.player);
    const kinds = dashjs.MediaPlayer.events;
    player.on(kinds.ERROR, (event) => {
      record.errors.push([performance.now(), event.error.code, event.error.message]);
    });
    player.on(kinds.PLAYBACK_ERROR, (event) => {
      const error = event.error || video.error;
      record.errors.push([performance.now(), error ? error.code : null, error ? error.message : "playback error"]);
    });
    video.requestVideoFrameCallback(onFrame);
    timer = setInterval(sample, SAMPLE_EVERY_MS);
    record.started = progress.at = performance.now();
    player.initialize(video, settings.url, true);
  }

  return { begin, finish, record, isOver: () => record.outcome !== null };
})();
