import OTASimulator

/// Sees what a person wants to know of a served device.
struct DeviceObserver {
    private var imageSize: Int?
    private var blinks = 0
    private var version: String?
    private var isOnTrial = false

    /// What is new since the last look.
    mutating func look(at device: any ObservedDevice) -> [String] {
        var news: [String] = []
        let reception = device.imageReception
        if let reception, imageSize == nil {
            news.append("it receives an image of \(reception.size) bytes, from byte \(reception.offset)")
        }
        if reception == nil, imageSize != nil { news.append("it receives the image no longer") }
        imageSize = reception?.size
        let blinks = device.identifyRequests
        news += blinks.dropFirst(self.blinks).map { $0 > 0 ? "it blinks for \($0) seconds" : "it blinks no more" }
        self.blinks = blinks.count
        guard let running = device.running else {
            // It restarts.
            version = nil
            return news
        }
        // What it booted tells of the boot; whether it was confirmed since is on its flash.
        let isOnTrial = running.isOnTrial && device.bootState?.trial == .running
        if running.image.version != version {
            news.append("it runs \(running.image.version)" + (isOnTrial ? ", on trial" : ""))
        } else if self.isOnTrial, !isOnTrial {
            news.append("\(running.image.version) is confirmed")
        }
        version = running.image.version
        self.isOnTrial = isOnTrial
        return news
    }
}
