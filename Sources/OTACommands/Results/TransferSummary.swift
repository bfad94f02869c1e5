import OTAUpdate

/// How an image went over. Bytes are image bytes.
struct TransferSummary: Encodable, Sendable {
    let resumedFrom, imageBytes, sentBytes, resentBytes: Int
    /// Absent where no chunk was sent.
    let chunkSize, mtu: Int?
    let flushes, gaps, disconnects: Int
    let seconds: Double
    /// Absent where no time passed.
    let bytesPerSecond: Double?
    /// What the link could carry without loss.
    let linkBoundBytesPerSecond: Double?
    let efficiency: Double?

    init(_ transfer: TransferReport, linkBound: Double?) {
        resumedFrom = transfer.resumedFrom
        imageBytes = transfer.imageBytes
        sentBytes = transfer.sentBytes
        resentBytes = transfer.resentBytes
        chunkSize = transfer.chunkSize > 0 ? transfer.chunkSize : nil
        mtu = transfer.mtu > 0 ? transfer.mtu : nil
        flushes = transfer.flushes
        gaps = transfer.gaps
        disconnects = transfer.disconnects
        let elapsed = transfer.duration.seconds
        seconds = Figures.rounded(elapsed)
        let rate = elapsed > 0 ? Double(transfer.imageBytes - transfer.resumedFrom) / elapsed : nil
        bytesPerSecond = rate.map(Figures.rounded)
        linkBoundBytesPerSecond = linkBound.map(Figures.rounded)
        efficiency = linkBound.flatMap { bound in rate.map { Figures.rounded($0 / bound) } }
    }

    /// For people; empty where nothing was sent.
    var sentences: [String] {
        guard sentBytes > 0 else { return [] }
        let what = resumedFrom > 0 ? "Resumed at byte \(resumedFrom) of \(imageBytes); the rest" : "\(imageBytes) bytes"
        var sentence = "\(what) took \(Figures.time(seconds))"
        if let bytesPerSecond { sentence += ": \(Figures.rate(bytesPerSecond))" }
        if let efficiency {
            sentence += ", \(Figures.decimal(efficiency * 100, places: 1)) % of what the link can carry"
        }
        var lines = [sentence + "."]
        let troubles = [Self.count(gaps, "gap"), Self.count(disconnects, "lost link")].compactMap { $0 }
        if !troubles.isEmpty {
            lines.append("\(Figures.bytes(resentBytes)) sent again, after \(troubles.joined(separator: " and ")).")
        }
        return lines
    }

    private static func count(_ number: Int, _ what: String) -> String? {
        number == 0 ? nil : "\(number) \(what)\(number == 1 ? "" : "s")"
    }
}
