"use strict";

/* One end of a call. Descriptions and candidates go in and out through the functions of `call`; media goes straight to
   the other end. Times are milliseconds of the system's clock. */
const call = (() => {
  let peer;
  let settings;
  let sampler;
  const samples = [];
  const marks = {};

  const now = () => performance.timeOrigin + performance.now();

  const COUNTED = {
    "inbound-rtp": [
      "framesDecoded", "framesDropped", "framesReceived", "freezeCount", "totalFreezesDuration", "pauseCount",
      "frameWidth", "frameHeight", "framesPerSecond", "bytesReceived", "headerBytesReceived", "packetsReceived",
      "packetsLost", "jitter", "jitterBufferDelay", "jitterBufferEmittedCount", "nackCount", "pliCount",
      "retransmittedPacketsReceived", "totalDecodeTime", "decoderImplementation",
    ],
    "outbound-rtp": [
      "bytesSent", "packetsSent", "framesEncoded", "framesPerSecond", "frameWidth", "frameHeight", "targetBitrate",
      "qualityLimitationReason", "qualityLimitationDurations", "totalEncodeTime", "retransmittedPacketsSent",
      "encoderImplementation",
    ],
    "remote-inbound-rtp": ["roundTripTime", "fractionLost", "packetsLost", "jitter"],
    "candidate-pair": ["currentRoundTripTime", "availableOutgoingBitrate", "bytesSent", "bytesReceived"],
  };

  const pick = (stat) => Object.fromEntries(
    COUNTED[stat.type].filter((name) => stat[name] !== undefined).map((name) => [name, stat[name]]),
  );

  async function sample() {
    const report = await peer.getStats();
    const row = { at: now() };
    const stats = [...report.values()];
    const selected = stats.find((stat) => stat.type === "transport")?.selectedCandidatePairId;
    for (const stat of stats) {
      if (!(stat.type in COUNTED)) continue;
      if (stat.type === "candidate-pair") {
        if (stat.id === selected) row.pair = pick(stat);
      } else if (stat.kind === "video") {
        row[stat.type] = pick(stat);
      } else if (stat.kind === "audio") {
        row[`audio ${stat.type}`] = pick(stat);
      }
    }
    samples.push(row);
  }

  async function prepare(given) {
    settings = given;
    peer = new RTCPeerConnection({ iceServers: [], bundlePolicy: "max-bundle" });
    const video = { width: settings.width, height: settings.height, frameRate: settings.fps };
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true, video });
    const [track] = stream.getVideoTracks();
    for (const each of stream.getTracks()) peer.addTrack(each, stream);
    const transceiver = peer.getTransceivers().find((one) => one.sender.track === track);
    const codecs = RTCRtpSender.getCapabilities("video").codecs;
    const named = (name) => codecs.filter((codec) => codec.mimeType.toLowerCase() === `video/${name}`);
    transceiver.setCodecPreferences([...named("vp8"), ...named("rtx")]);
    if (settings.bitrate) {
      const parameters = transceiver.sender.getParameters();
      parameters.encodings[0].maxBitrate = settings.bitrate;
      await transceiver.sender.setParameters(parameters);
    }
    const element = document.getElementById("remote");
    peer.addEventListener("track", (event) => {
      if (event.track.kind !== "video") return;
      element.srcObject = new MediaStream([event.track]);
      element.requestVideoFrameCallback(() => { marks.firstFrame = now(); });
    });
    peer.addEventListener("connectionstatechange", () => { marks[peer.connectionState] ??= now(); });
    return track.getSettings();
  }

  /* The whole description, with every candidate of this host in it. */
  async function gathered() {
    if (peer.iceGatheringState !== "complete") {
      await new Promise((done) => {
        peer.addEventListener("icegatheringstatechange", () => peer.iceGatheringState === "complete" && done());
      });
    }
    return peer.localDescription.toJSON();
  }

  async function offer() {
    await peer.setLocalDescription(await peer.createOffer());
    return gathered();
  }

  async function answer(description) {
    begin();
    await peer.setRemoteDescription(description);
    await peer.setLocalDescription(await peer.createAnswer());
    return gathered();
  }

  async function accept(description) {
    begin();
    await peer.setRemoteDescription(description);
  }

  function begin() {
    marks.begin = now();
    sampler = setInterval(sample, settings.every);
  }

  async function finish() {
    clearInterval(sampler);
    await sample();
    marks.end = now();
    const state = peer.connectionState;
    const addresses = await selected();
    peer.close();
    return { samples, marks, state, addresses };
  }

  /* Between which addresses the media went at last. */
  async function selected() {
    const report = await peer.getStats();
    const transport = [...report.values()].find((stat) => stat.type === "transport");
    const pair = report.get(transport?.selectedCandidatePairId);
    const address = (id) => report.get(id)?.address ?? null;
    return pair ? { local: address(pair.localCandidateId), remote: address(pair.remoteCandidateId) } : null;
  }

  return { prepare, offer, answer, accept, finish };
})();
