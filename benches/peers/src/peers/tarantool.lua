-- Runs the phases of a comparison inside tarantool, with fibers and no network between.
--
--     tarantool tarantool.lua DIRECTORY WAL_MODE MODULE
--
-- Each line of standard input is a request in JSON and is answered by a line of JSON. The process ends
-- with its standard input, so that it does not outlive who started it.

local clock = require('clock')
local ffi = require('ffi')
local fiber = require('fiber')
local fio = require('fio')
local json = require('json')

local directory, wal_mode, module = arg[1], arg[2], arg[3]
package.path = module .. '/?.lua;' .. module .. '/?/init.lua;' .. package.path

-- Seconds that a task may take to come before it counts as lost.
local PATIENCE = 10
-- Most faults that are told in words.
local TOLD = 5

box.cfg {
    wal_dir = directory,
    memtx_dir = directory,
    wal_mode = wal_mode,
    memtx_memory = 4 * 1024 * 1024 * 1024,
    log = directory .. '/tarantool.log',
}
local queue = require('queue')
local tube = queue.create_tube('bench', 'fifo', { if_not_exists = true })
-- 2.6 may open its last log without O_SYNC and append to it; the log that follows a snapshot is a new one.
box.snapshot()

-- Bodies -----------------------------------------------------------------------------------------------

-- A body is its serial number in hexadecimal, then letters that depend on it, in no order that the log's
-- compression would find. Whoever takes one compares all of it, and that it comes for the first time.
local bodies = { put = 0, sound = 0, taken = ffi.new('uint8_t[?]', 1024), room = 1024, faults = {} }

function bodies.shape(size)
    local state, letters = 12345, {}
    for i = 1, size + 4096 do
        state = (state * 1103515245 + 12345) % 2147483648
        letters[i] = string.char(97 + math.floor(state / 65536) % 26)
    end
    bodies.letters, bodies.size = table.concat(letters), size
end

local function letters_of(serial)
    local start = serial * 7919 % 4096
    return bodies.letters:sub(start + 1, start + bodies.size - 16)
end

function bodies.fresh()
    local serial = bodies.put
    bodies.put = serial + 1
    return ('%016x'):format(serial) .. letters_of(serial)
end

function bodies.fault(what)
    if #bodies.faults < TOLD then
        table.insert(bodies.faults, what)
    end
end

function bodies.check(body)
    local serial = tonumber(body:sub(1, 16), 16)
    if serial == nil or serial >= bodies.put or body:sub(17) ~= letters_of(serial) then
        return bodies.fault(('a wrong body of %d bytes, "%s"'):format(#body, body:sub(1, 32)))
    end
    if serial >= bodies.room then
        local room = math.max(serial + 1, bodies.room * 2)
        local taken = ffi.new('uint8_t[?]', room)
        ffi.copy(taken, bodies.taken, bodies.room)
        bodies.taken, bodies.room = taken, room
    end
    if bodies.taken[serial] ~= 0 then
        return bodies.fault(('body %d was handed out twice'):format(serial))
    end
    bodies.taken[serial] = 1
    bodies.sound = bodies.sound + 1
end

-- Work -------------------------------------------------------------------------------------------------

local work = {}

work['put'] = function()
    tube:put(bodies.fresh())
    return true
end

work['take-ack'] = function()
    local task = tube:take(0)
    if task == nil then
        return false
    end
    bodies.check(task[3])
    tube:ack(task[1])
    return true
end

work['cycle'] = function()
    tube:put(bodies.fresh())
    local task = tube:take(PATIENCE)
    if task == nil then
        error('what was put could not be taken')
    end
    bodies.check(task[3])
    tube:ack(task[1])
    return true
end

local function joined(fibers)
    for _, each in ipairs(fibers) do
        local ok, trouble = each:join()
        if not ok then
            error(trouble)
        end
    end
end

local function spawned(run)
    local each = fiber.new(run)
    each:set_joinable(true)
    return each
end

local function run(request)
    local step, tasks = work[request.work], 0
    local start = clock.monotonic()
    local fibers = {}
    for i = 1, request.callers do
        fibers[i] = spawned(function()
            while clock.monotonic() - start < request.seconds do
                if not step() then
                    return
                end
                tasks = tasks + 1
            end
        end)
    end
    joined(fibers)
    return { tasks = tasks, seconds = clock.monotonic() - start }
end

-- Each task is put a while after the one before was acked.
local function wake_up(request)
    local in_hand, nanos = fiber.channel(1), {}
    local consumer = spawned(function()
        for _ = 1, request.tasks do
            local task = tube:take(PATIENCE)
            local now = clock.monotonic()
            if task == nil then
                error('a task did not come')
            end
            bodies.check(task[3])
            tube:ack(task[1])
            in_hand:put(now)
        end
    end)
    for i = 1, request.tasks do
        fiber.sleep(request.seconds * (0.5 + i * 7919 % 101 / 100))
        tube:put(bodies.fresh())
        local returned = clock.monotonic()
        nanos[i] = math.floor((in_hand:get(2 * PATIENCE) - returned) * 1e9)
    end
    joined({ consumer })
    return { nanos = nanos }
end

-- Requests ---------------------------------------------------------------------------------------------

local function answered(line)
    local request = json.decode(line)
    if bodies.size ~= request.body then
        bodies.shape(request.body)
    end
    local put, sound = bodies.put, bodies.sound
    local answer = request.work == 'wake-up' and wake_up(request) or run(request)
    answer.put, answer.taken = bodies.put - put, bodies.sound - sound
    answer.faults, bodies.faults = setmetatable(bodies.faults, { __serialize = 'seq' }), {}
    return answer
end

local function say(answer)
    io.stdout:write(json.encode(answer), '\n')
    io.stdout:flush()
end

say({ ready = true })
local input, unread = fio.open('/dev/stdin', { 'O_RDONLY' }), ''
local requests = fiber.channel(16)
fiber.create(function()
    while true do
        local ok, answer = pcall(answered, requests:get())
        say(ok and answer or { error = tostring(answer) })
    end
end)
while true do
    local read = input:read(4096)
    if read == nil or read == '' then
        os.exit(0)
    end
    unread = unread .. read
    for line in unread:gmatch('([^\n]*)\n') do
        requests:put(line)
    end
    unread = unread:match('[^\n]*$')
end
