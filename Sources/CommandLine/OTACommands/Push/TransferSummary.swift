import OTAFirmware
import OTAUpdate

/// The statistics of an upload. `resumedFrom` and `imageBytes` count image bytes. `sentBytes` and `resentBytes` count the bytes on the
/// link, without headers: image bytes, or bytes of an encoded image.
struct TransferSummary: Encodable, Sendable {
    /// The running image that was the base of an encoded image.
    struct Base: Encodable, Sendable {
        /// The version in the bundle of the base; nil if the base was not in a bundle.
        let version: String?
        let sha256: String
        /// The file of the base, for the user.
        let name: String

        private enum CodingKeys: CodingKey { case version, sha256 }

        init(_ base: BaseImage) {
            (version, sha256, name) = (base.version?.text, base.digest.description, base.name)
        }

        /// The version, or the name of a file without a version.
        var title: String { version ?? name }
    }

    let resumedFrom, imageBytes, sentBytes, resentBytes: Int
    /// `lzma2` if at least a part of the image was encoded; `plain` if no part was encoded.
    let encoding: String
    /// The base of the delta; nil if the image was not sent as a delta.
    let base: Base?
    /// The number of encoded bytes that the device decoded; nil if nothing was encoded.
    let encodedBytes: Int?
    /// The reason why the image, or its last part, was sent plain. Nil if the last part was encoded, or if the protocol has no encodings.
    let plainBecause: String?
    /// The number of bases that the device refused; nil if it refused none.
    let baseRefused: Int?
    /// The length of the longest chunk and the MTU of the link, in bytes. `chunkSize` is nil if no chunk was sent. `mtu` is nil on a
    /// transport without an MTU.
    let chunkSize, mtu: Int?
    let flushes, gaps, disconnects: Int
    let seconds: Double
    /// The average rate of the upload in image bytes per second; nil if the duration of the upload is 0.
    let bytesPerSecond: Double?
    /// The average rate of the bytes on the link, in bytes per second. The bytes that were sent again do not count. Nil if the duration of
    /// the upload is 0.
    let linkBytesPerSecond: Double?
    /// The maximum rate of a simulated link if no packet is lost, in bytes per second; nil for a real link.
    let linkBoundBytesPerSecond: Double?
    /// `linkBytesPerSecond` divided by `linkBoundBytesPerSecond`; nil if one of them is nil.
    let efficiency: Double?

    init(_ transfer: TransferReport, linkBound: Double?) {
        resumedFrom = transfer.resumedFrom
        imageBytes = transfer.imageBytes
        sentBytes = transfer.sentBytes
        resentBytes = transfer.resentBytes
        encoding = transfer.encoding.rawValue
        base = transfer.base.map { Base($0) }
        encodedBytes = transfer.encoding == .plain ? nil : transfer.encodedBytes
        plainBecause = transfer.plainBecause?.rawValue
        baseRefused = transfer.baseRefused > 0 ? transfer.baseRefused : nil
        chunkSize = transfer.chunkSize > 0 ? transfer.chunkSize : nil
        mtu = transfer.mtu > 0 ? transfer.mtu : nil
        flushes = transfer.flushes
        gaps = transfer.gaps
        disconnects = transfer.disconnects
        seconds = Figures.rounded(transfer.duration.seconds)
        bytesPerSecond = transfer.bytesPerSecond.map(Figures.rounded)
        let rate = transfer.linkBytesPerSecond
        linkBytesPerSecond = rate.map(Figures.rounded)
        linkBoundBytesPerSecond = linkBound.map(Figures.rounded)
        efficiency = linkBound.flatMap { bound in rate.map { Figures.rounded($0 / bound) } }
    }

    /// The form of the image, for a table: `delta`, `compressed` or `plain`; `delta+plain` or `compressed+plain` if the last part was plain.
    var form: String {
        guard encodedBytes != nil else { return "plain" }
        return (base == nil ? "compressed" : "delta") + (plainBecause == nil ? "" : "+plain")
    }

    /// The sentences for the user; an empty array if nothing was sent.
    var sentences: [String] {
        guard sentBytes > 0 else { return [] }
        let what = resumedFrom > 0 ? "Resumed at byte \(resumedFrom) of \(imageBytes); the rest" : "\(imageBytes) bytes"
        var sentence = "\(what) took \(Figures.time(seconds))"
        // The rates of an encoded image are only in JSON. The device limits them, and the number of image bytes is not the number of sent
        // bytes, so in a sentence they look like a contradiction.
        if let bytesPerSecond, encodedBytes == nil {
            let maximum = efficiency.map { ", \(Figures.decimal($0 * 100, places: 1)) % of the link's maximum" } ?? ""
            sentence += ": \(Figures.rate(bytesPerSecond))\(maximum)"
        }
        var lines = [sentence + "."]
        if let encodedBytes {
            let form = base.map { "as a delta from \($0.title)" } ?? "compressed"
            if let plainBecause {
                let reason = plainBecause.map { $0 == "-" ? " " : String($0) }.joined()
                lines.append(
                    "The image was sent in two forms: \(form), \(Figures.bytes(encodedBytes)); the rest plain (\(reason)). "
                        + "In all, \(Figures.bytes(sentBytes)).")
            } else {
                lines.append("The image was sent \(form): \(Figures.bytes(encodedBytes)).")
            }
        }
        let troubles = [(gaps, "gap"), (disconnects, "lost link")].filter { $0.0 > 0 }.map { Figures.count($0, $1) }
        if !troubles.isEmpty {
            lines.append("\(Figures.bytes(resentBytes)) sent again after \(troubles.joined(separator: " and ")).")
        }
        return lines
    }
}
